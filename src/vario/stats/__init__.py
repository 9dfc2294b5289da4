"""Pure array functions: values in, values out. Nothing here knows a run or a metric."""
