"""The sandbox's payment gateway and card vault."""
