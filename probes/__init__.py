"""What can be measured on a counting model. One probe per file: a pure function, a small frozen result, no drawing."""
