"""What goes over the wire: a shape for each thing that the HTTP API shows or takes; values only."""
