variables {
  workspace = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b"
  job       = "weir-regional"
  target    = "127.0.0.1:8090"
  region    = "eu"
  instance  = "one"
}

run "written" {
  assert {
    condition = (output.config.exporters["prometheusremotewrite/weir"].endpoint == "https://aps-workspaces.eu-central-1.amazonaws.com/workspaces/ws-1a2b/api/v1/remote_write" &&
    output.config.extensions[output.config.exporters["prometheusremotewrite/weir"].auth.authenticator].region == "eu-central-1")
    error_message = "The collector must write to the workspace, with requests that are signed for its region."
  }
  assert {
    condition     = output.config.service.pipelines["metrics/weir"] == { receivers = ["prometheus/weir"], exporters = ["prometheusremotewrite/weir"] }
    error_message = "What is scraped must be written."
  }
}

run "none" {
  variables { workspace = "" }
  assert {
    condition     = length(output.config.receivers) + length(output.config.extensions) + length(output.config.exporters) + length(output.config.service.pipelines) == 0
    error_message = "Without a workspace nothing is scraped."
  }
}

run "a_name_in_place_of_the_arn" {
  command = plan
  variables { workspace = "ws-1a2b" }
  expect_failures = [var.workspace]
}
