from dataclasses import dataclass, field
SETTINGS = {"T15": {"rlhf_type": "grpo"}, "T16": {"rlhf_type": "grpo", "swift_version": "3.8.1"}, "T17": {"rlhf_type": "grpo"}, "T19": {"rlhf_type": "grpo"}}
A="actor_rollout_ref.actor."
SPELT = {"T20": {"kl_loss_coef": A+"kl_loss_coef"},"T25": {"actor_lr": A+"optim.lr","kl_coef":A+"kl_loss_coef"},"T27":{"kl_coef":A+"kl_loss_coef"},
"T29":{"gen_kl_error":"train/gen_kl_error","val_accuracy":"validation/accuracy","reward":"train/reward"},
"T30":{"sequence_level_importance_ratios":"loss_fn.sequence_level_importance_ratios"},
"T35":{}, "T36":{"ratio_mean":"sampling/importance_sampling_ratio/mean"}}
ENTRIES = {}
class Expected: ...
class Item: ...
@dataclass
class Heard: 
    arms: dict
