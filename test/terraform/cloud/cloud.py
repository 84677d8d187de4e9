"""An AWS for Terraform: moto's server, and what it lacks or answers otherwise than AWS for the resources of terraform/modules.

    cloud.py -H 127.0.0.1 -p PORT

While the file WEIR_ROLLBACK exists, ECS rolls each update of a service back at once. Each replacement names what moto does without it. What is
not emulated at all answers 400: the provider repeats what answers 500 for minutes.
"""

import functools
import json
import os
import sys
import threading
import uuid

from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse as Scaling
from moto.autoscaling.responses import AutoScalingResponse as Groups
from moto.core.responses import ActionResult, BaseResponse, EmptyResult
from moto.ec2.models.launch_templates import LaunchTemplate
from moto.ec2.models.security_groups import SecurityGroupRule
from moto.ecs.responses import EC2ContainerServiceResponse as ECS
from moto.elasticache.exceptions import ElastiCacheException
from moto.elasticache.responses import ElastiCacheResponse as Cache
from moto.elbv2 import models as elb
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Server
from moto.server import main


def replaces(owner, name=None):
    """Has the function stand for that of an owner, which it gets as its first argument."""

    def take(function):
        before = getattr(owner, name or function.__name__, None)

        @functools.wraps(function)
        def instead(*args, **kwargs):
            return function(before, *args, **kwargs)

        setattr(owner, name or function.__name__, instead)
        return function

    return take


# The server: requests change lists without a lock, and the provider makes ten at a time.
turn = threading.RLock()


@replaces(Server, "__call__")
def serve(before, self, environ, start_response):
    with turn:
        return before(self, environ, start_response)


@replaces(BaseResponse)
def call_action(before, self):
    try:
        return before(self)
    except NotImplementedError as missing:
        print("not emulated:", missing, flush=True)
        return 400, {}, json.dumps({"__type": "NotImplemented", "message": str(missing)})


# ElastiCache: there are no parameter groups; nodes of a replication group are not described, nor changed, and a group that is
# deleted stays.
class NotThere(ElastiCacheException):
    pass


def parameter_groups(self):
    return self.elasticache_backend.__dict__.setdefault("parameter_groups", {})


def parameter_group(self):
    name = self._get_param("CacheParameterGroupName")
    if name not in parameter_groups(self):
        raise NotThere("CacheParameterGroupNotFound", f"CacheParameterGroup {name} not found.")
    return parameter_groups(self)[name]


@replaces(Cache)
def create_cache_parameter_group(_, self):
    name = self._get_param("CacheParameterGroupName")
    about = {
        "CacheParameterGroupName": name,
        "CacheParameterGroupFamily": self._get_param("CacheParameterGroupFamily"),
        "Description": self._get_param("Description"),
        "ARN": f"arn:aws:elasticache:{self.region}:{self.current_account}:parametergroup:{name}",
    }
    parameter_groups(self)[name] = {"about": about, "values": {}, "tags": self._get_param("Tags", [])}
    return ActionResult({"CacheParameterGroup": about})


@replaces(Cache)
def describe_cache_parameter_groups(_, self):
    return ActionResult({"CacheParameterGroups": [parameter_group(self)["about"]]})


@replaces(Cache)
def describe_cache_parameters(_, self):
    values = parameter_group(self)["values"].items()
    return ActionResult({"Parameters": [{"ParameterName": k, "ParameterValue": v, "Source": "user"} for k, v in values]})


@replaces(Cache)
def modify_cache_parameter_group(_, self):
    for one in self._get_param("ParameterNameValues", []):
        parameter_group(self)["values"][one["ParameterName"]] = one.get("ParameterValue")
    return ActionResult({"CacheParameterGroupName": self._get_param("CacheParameterGroupName")})


@replaces(Cache)
def reset_cache_parameter_group(_, self):
    for one in self._get_param("ParameterNameValues", []):
        parameter_group(self)["values"].pop(one["ParameterName"], None)
    return ActionResult({"CacheParameterGroupName": self._get_param("CacheParameterGroupName")})


@replaces(Cache)
def delete_cache_parameter_group(_, self):
    name = parameter_group(self)["about"]["CacheParameterGroupName"]
    if any(group.cache_parameter_group_name == name for group in self.elasticache_backend.replication_groups.values()):
        raise NotThere("InvalidCacheParameterGroupState", f"{name} is in use")
    del parameter_groups(self)[name]
    return EmptyResult()


@replaces(Cache)
def delete_cache_subnet_group(_, self):
    self.elasticache_backend.cache_subnet_groups.pop(self._get_param("CacheSubnetGroupName"), None)
    return EmptyResult()


def tagged_group(self):
    return parameter_groups(self).get(self._get_param("ResourceName").rsplit(":", 1)[1]) if ":parametergroup:" in self._get_param("ResourceName") else None


@replaces(Cache)
def list_tags_for_resource(before, self):
    group = tagged_group(self)
    return ActionResult({"TagList": group["tags"]}) if group else before(self)


@replaces(Cache)
def add_tags_to_resource(before, self):
    group, new = tagged_group(self), self._get_param("Tags", [])
    if not group:
        return before(self)
    group["tags"] = [t for t in group["tags"] if t["Key"] not in [n["Key"] for n in new]] + new
    return EmptyResult()


@replaces(Cache)
def remove_tags_from_resource(before, self):
    group = tagged_group(self)
    if not group:
        return before(self)
    group["tags"] = [t for t in group["tags"] if t["Key"] not in self._get_param("TagKeys", [])]
    return EmptyResult()


@replaces(Cache)
def describe_cache_clusters(before, self):
    name = self._get_param("CacheClusterId")
    for group in self.elasticache_backend.replication_groups.values():
        if name not in group.member_clusters:
            continue
        version = group.engine_version or "8.0"
        return ActionResult({"CacheClusters": [{
            "CacheClusterId": name, "CacheClusterStatus": "available", "ReplicationGroupId": group.replication_group_id,
            "ARN": f"arn:aws:elasticache:{self.region}:{self.current_account}:cluster:{name}",
            "Engine": group.engine, "EngineVersion": version if version.count(".") == 2 else version + ".1",
            "CacheNodeType": group.cache_node_type, "NumCacheNodes": 1, "CacheNodes": [],
            "CacheSubnetGroupName": group.cache_subnet_group_name, "PreferredMaintenanceWindow": "sun:05:00-sun:06:00",
            "SnapshotRetentionLimit": group.snapshot_retention_limit, "AutoMinorVersionUpgrade": True,
            "CacheParameterGroup": {"CacheParameterGroupName": group.cache_parameter_group_name, "ParameterApplyStatus": "in-sync"},
            "SecurityGroups": [{"SecurityGroupId": s, "Status": "active"} for s in group.security_group_ids or []],
            "TransitEncryptionMode": group.transit_encryption_mode, "TransitEncryptionEnabled": True, "AtRestEncryptionEnabled": True,
        }]})
    return before(self)


@replaces(Cache)
def modify_replication_group(before, self):
    group = self.elasticache_backend.replication_groups.get(self._get_param("ReplicationGroupId"))
    changes = {"engine_version": "EngineVersion", "cache_parameter_group_name": "CacheParameterGroupName", "security_group_ids": "SecurityGroupIds"}
    for attribute, parameter in changes.items():
        if group and self._get_param(parameter):
            setattr(group, attribute, self._get_param(parameter))
    return before(self)


@replaces(Cache)
def delete_replication_group(before, self):
    answer = before(self)
    self.elasticache_backend.replication_groups.pop(self._get_param("ReplicationGroupId"), None)
    return answer


# Application Auto Scaling: tags of targets are dropped.
target_tags = {}


def body(self):
    return json.loads(self.body)


@replaces(Scaling)
def register_scalable_target(before, self):
    answer = before(self)
    target_tags.setdefault(json.loads(answer).get("ScalableTargetARN"), {}).update(body(self).get("Tags") or {})
    return answer


def tags_of(self):
    return target_tags.setdefault(body(self)["ResourceARN"], {})


Scaling.list_tags_for_resource = lambda self: json.dumps({"Tags": tags_of(self)})


def tag_resource(self):
    tags_of(self).update(body(self)["Tags"])
    return "{}"


def untag_resource(self):
    for key in body(self)["TagKeys"]:
        tags_of(self).pop(key, None)
    return "{}"


Scaling.tag_resource, Scaling.untag_resource = tag_resource, untag_resource


# Load balancers: all have the ARN of an application's.
@replaces(elb.ELBv2Backend)
def create_load_balancer(before, self, *args, **kwargs):
    make = elb.make_arn_for_load_balancer
    if kwargs.get("loadbalancer_type") == "network":
        elb.make_arn_for_load_balancer = lambda **of: make(**of).replace("/app/", "/net/")
    try:
        return before(self, *args, **kwargs)
    finally:
        elb.make_arn_for_load_balancer = make


# Security groups: a rule that names a group loses its description, or is another rule with it.
@replaces(SecurityGroupRule, "__init__")
def new_rule(before, self, ec2_backend, ip_protocol, group_id, from_port, to_port, ip_range, source_group=None, prefix_list_id=None, is_egress=True, tags=None):
    source_group = dict(source_group or {})
    self.of_group = source_group.pop("Description", None)
    before(self, ec2_backend, ip_protocol, group_id, from_port, to_port, ip_range, source_group, prefix_list_id, is_egress=is_egress, tags=tags)


SecurityGroupRule.description = property(lambda self: self.ip_range.get("Description") or self.of_group)


# Launch templates: their own tags become those of what they launch.
@replaces(LaunchTemplate, "__init__")
def new_template(before, self, backend, name, template_data, description, tag_spec):
    specs = [t for t in template_data.pop("TagSpecifications", []) if t["ResourceType"] != "launch-template"]
    if specs:
        template_data["TagSpecifications"] = specs
    before(self, backend, name, template_data, description, tag_spec)


LaunchTemplate.tags = property(lambda self: self.get_tags(), lambda self, value: None)


# Auto Scaling groups: there is no warm-up, policies are not enabled, and no refresh of instances begins.
refreshes = {}


def group_of(self):
    return self.autoscaling_backend.autoscaling_groups.get(self._get_param("AutoScalingGroupName"))


for action in ("create_auto_scaling_group", "update_auto_scaling_group"):
    @replaces(Groups, action)
    def with_warm_up(before, self):
        answer = before(self)
        if group_of(self) and self._get_param("DefaultInstanceWarmup") is not None:
            group_of(self).default_instance_warmup = int(self._get_param("DefaultInstanceWarmup"))
        return answer


@replaces(Groups)
def put_scaling_policy(before, self):
    answer = before(self)
    for policy in self.autoscaling_backend.policies.values():
        policy.enabled = True
        policy.predictive_scaling_configuration = policy.predictive_scaling_configuration or None
    return answer


@replaces(Groups)
def start_instance_refresh(_, self):
    name, one = self._get_param("AutoScalingGroupName"), str(uuid.uuid4())
    done = {"InstanceRefreshId": one, "AutoScalingGroupName": name, "Status": "Successful", "PercentageComplete": 100}
    refreshes.setdefault((self.region, name), []).insert(0, done)
    print("instance refresh:", name, flush=True)
    return ActionResult({"InstanceRefreshId": one})


@replaces(Groups)
def describe_instance_refreshes(_, self):
    return ActionResult({"InstanceRefreshes": refreshes.get((self.region, self._get_param("AutoScalingGroupName")), [])})


# ECS: settings of a service are dropped, and its deployments never end.
def service_of(self, name):
    return self.ecs_backend.services[self._get_param("cluster").split("/")[-1] + ":" + self._get_param(name).split("/")[-1]]


def steady(service):
    service.running_count, service.pending_count = service.desired_count, 0
    for deployment in service.deployments:
        deployment.update(taskDefinition=service.task_definition, runningCount=service.desired_count, pendingCount=0, rolloutState="COMPLETED")


@replaces(ECS)
def create_service(before, self):
    answer = before(self)
    service = service_of(self, "serviceName")
    service.availability_zone_rebalancing = self._get_param("availabilityZoneRebalancing", "DISABLED")
    service.enable_ecs_managed_tags = self._get_param("enableECSManagedTags", False)
    service.enable_execute_command = self._get_param("enableExecuteCommand", False)
    steady(service)
    return answer


@replaces(ECS)
def update_service(before, self):
    service = service_of(self, "service")
    old = service.task_definition
    answer = before(self)
    if os.path.exists(os.environ["WEIR_ROLLBACK"]):
        service.task_definition = old
    steady(service)
    print("update of a service:", service.cluster_name, service.name, service.task_definition, flush=True)
    return answer


if __name__ == "__main__":
    main(sys.argv[1:])
