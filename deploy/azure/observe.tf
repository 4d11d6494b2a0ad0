# Traces: the roles speak OTLP over HTTP to a collector, which speaks to Application
# Insights. Container Apps' own agent takes OTLP over gRPC, which the roles do not speak.
resource "azapi_resource" "insights" {
  count                  = var.traces ? 1 : 0
  type                   = "Microsoft.Insights/components@2020-02-02"
  name                   = var.name
  parent_id              = azapi_resource.group.id
  location               = var.location
  body                   = { kind = "web", properties = { Application_Type = "web", WorkspaceResourceId = azapi_resource.logs.id } }
  response_export_values = ["properties.ConnectionString"]
}

resource "azapi_resource" "collector" {
  count     = var.traces ? 1 : 0
  type      = "Microsoft.App/containerApps@2025-01-01"
  name      = "${var.name}-collector"
  parent_id = azapi_resource.group.id
  location  = var.location
  body = {
    properties = {
      environmentId       = azapi_resource.environment.id
      workloadProfileName = "Consumption"
      configuration = {
        activeRevisionsMode = "Single"
        secrets             = [{ name = "insights", value = azapi_resource.insights[0].output.properties.ConnectionString }]
        ingress             = { external = false, targetPort = 4318, transport = "http", allowInsecure = true } # inside the environment
      }
      template = {
        containers = [{
          name      = "collector"
          image     = "docker.io/otel/opentelemetry-collector-contrib:0.140.0"
          args      = ["--config=env:COLLECTOR_CONFIG"]
          resources = { cpu = 0.25, memory = "0.5Gi" }
          env = [
            { name = "APPLICATIONINSIGHTS_CONNECTION_STRING", secretRef = "insights" },
            { name = "COLLECTOR_CONFIG", value = yamlencode({
              receivers = { otlp = { protocols = { http = { endpoint = "0.0.0.0:4318" } } } }
              exporters = { azuremonitor = { connection_string = "$${env:APPLICATIONINSIGHTS_CONNECTION_STRING}" } }
              service   = { pipelines = { traces = { receivers = ["otlp"], exporters = ["azuremonitor"] } } }
            }) },
          ]
        }]
        scale = { minReplicas = 1, maxReplicas = 1 }
      }
    }
  }
}

resource "azapi_resource" "budget" {
  count     = var.budget == null ? 0 : 1
  type      = "Microsoft.Consumption/budgets@2023-05-01"
  name      = var.name
  parent_id = azapi_resource.group.id
  body = {
    properties = {
      amount     = var.budget.dollars
      category   = "Cost"
      timeGrain  = "Monthly"
      timePeriod = { startDate = var.budget.start }
      notifications = { for percent in [50, 80, 100] : "at${percent}" => {
        enabled       = true
        operator      = "GreaterThanOrEqualTo"
        threshold     = percent
        thresholdType = "Actual"
        contactEmails = var.budget.emails
      } }
    }
  }
}
