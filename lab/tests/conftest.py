pytest_plugins = ("tiers", "stuck", "budgets")
