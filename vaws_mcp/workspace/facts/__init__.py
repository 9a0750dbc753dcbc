"""What an endpoint is: versions, and how long reaching it takes."""
