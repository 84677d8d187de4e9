output "security_group_id" {
  description = "Security group of the tasks."
  value       = aws_security_group.this.id
}

output "execution_policy" {
  description = "What ECS itself may do to start a task, as a policy in JSON."
  value       = aws_iam_role_policy.execution.policy
}

output "rolled" {
  description = "The service, known when all its tasks run what was applied: what must come after them takes it as `after`."
  value       = aws_ecs_service.this.id
}
