"""What people compute from weights: analysis by later papers, none of it a mechanism of 2014 to 2018."""
