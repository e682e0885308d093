"""What people use in a browser, and what starts it. It asks the store and the api, and composes nothing."""
