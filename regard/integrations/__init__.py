"""regard inside other libraries; each is imported by whoever uses it."""
