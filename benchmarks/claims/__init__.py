"""Published claims about TVM, and this project's answers from saved results."""
