"""The NPUs of an endpoint: devices and their state, the CANN environment, and the machines that have them."""
