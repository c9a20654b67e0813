"""Pay runs: thousands of payments or payouts of one file, approved by several persons."""
