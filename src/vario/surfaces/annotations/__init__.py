"""A diagnosis written back beside the run that it is of: into W&B, trackio, MLflow and TensorBoard. One file a target."""
