"""What instructions touch and how long they take, for whoever orders, times or proves them."""
