"""What later papers compute from attention weights; no mechanisms of 2014 to 2018."""
