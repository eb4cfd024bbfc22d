"""Open approvals for the operator, which publishes them as objects and delivers the decisions of people."""
