"""Stores: ports at the level of domain operations, split by role, and the databases behind them."""
