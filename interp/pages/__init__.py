"""A model that runs in a page: its weights as JSON, its equations in JavaScript, and what such pages share."""
