"""The engine: services that fire what is due. Each is sequential code whose tick is bounded."""
