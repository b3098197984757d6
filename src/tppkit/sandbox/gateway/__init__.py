"""The payment gateway and its card vault as the sandbox has them."""
