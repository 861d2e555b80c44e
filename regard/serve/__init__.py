"""The HTTP server: trained systems behind a small JSON API, and the page of the studio.

Routes are in model_routes.py and studio_routes.py, requests and answers in requests.py and answers.py, the
computation in work.py. Every model has one queue and one thread (batching.py), so waiting requests are
computed in one batch.
"""
