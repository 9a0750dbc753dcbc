"""What an endpoint runs with, held against runtime profiles and brought to one of them."""
