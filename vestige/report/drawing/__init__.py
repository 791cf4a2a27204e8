"""Charts as Vega-Lite specifications, and pictures: what pages put into figures."""
