"""A report: one HTML file that opens with the network off and holds the verdict, the figures and the live model."""
