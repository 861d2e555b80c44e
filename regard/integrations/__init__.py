"""Integrations of regard into other libraries; import the one you use."""
