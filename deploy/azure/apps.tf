resource "azapi_resource" "logs" {
  type      = "Microsoft.OperationalInsights/workspaces@2023-09-01"
  name      = var.name
  parent_id = azapi_resource.group.id
  location  = var.location
  body      = { properties = { sku = { name = "PerGB2018" }, retentionInDays = 30, workspaceCapping = { dailyQuotaGb = 1 } } }
}

resource "azapi_resource" "environment" {
  type      = "Microsoft.App/managedEnvironments@2025-01-01"
  name      = var.name
  parent_id = azapi_resource.group.id
  location  = var.location
  body = {
    properties = {
      appLogsConfiguration = { destination = "azure-monitor" } # without the workspace's key
      workloadProfiles     = [{ name = "Consumption", workloadProfileType = "Consumption" }]
    }
  }
  response_export_values = ["properties.defaultDomain"]
}

resource "azapi_resource" "diagnostics" {
  type      = "Microsoft.Insights/diagnosticSettings@2021-05-01-preview"
  name      = "logs"
  parent_id = azapi_resource.environment.id
  body      = { properties = { workspaceId = azapi_resource.logs.id, logs = [{ categoryGroup = "allLogs", enabled = true }] } }
}

locals {
  web_host = "${var.name}-web.${azapi_resource.environment.output.properties.defaultDomain}"

  # Where nothing is given nothing is set, and the role's defaults hold.
  front = concat(
    length(var.hosts) == 0 ? [] : [{ name = "WEBROLE_HOSTS", value = join(",", concat([local.web_host], var.hosts)) }],
    var.ops == null ? [] : [{ name = "WEBROLE_PUBLIC_OPS", value = "on" }, { name = "WEBROLE_OPS_NETWORKS", value = join(",", var.ops) }],
    length(var.proxies) == 0 ? [] : [{ name = "WEBROLE_TRUSTED_PROXIES", value = join(",", var.proxies) }],
  )
  registries = var.registry == null ? [] : [var.registry.server]
  otlp       = var.traces ? [{ name = "OTEL_EXPORTER_OTLP_ENDPOINT", value = "http://${var.name}-collector" }] : []
  storage = [
    { name = "AZURE_STORAGE_ACCOUNT", value = azapi_resource.account.name },
    { name = "AZURE_TOKEN_CREDENTIALS", value = "ManagedIdentityCredential" },
  ]

  # What is given by name, and secrets: their names there are those of the settings, as the
  # platform writes them. nonsensitive: the names are none.
  given = { for role in ["webrole", "workerrole"] : role => concat(
    [for name, value in var.env[role] : { name = name, value = value }],
    [for name in nonsensitive(keys(var.secrets[role])) : { name = name, secretRef = lower(replace(name, "_", "-")) }],
  ) }
  kept = { for role, identity in { webrole = "web", workerrole = "worker" } : role => concat(
    [{ name = "token", value = var.token }],
    [for name in nonsensitive(keys(var.secrets[role])) : startswith(var.secrets[role][name], "https://") ?
      { name = lower(replace(name, "_", "-")), keyVaultUrl = var.secrets[role][name], identity = azapi_resource.identity[identity].id } :
    { name = lower(replace(name, "_", "-")), value = var.secrets[role][name] }],
  ) }

  # Queues whose length says how many workers there should be, and how many of their
  # messages one worker is for; lanes included. docs/azure.md says what this cannot
  # express. e2e/keyless compares it with the declared queues.
  signal = { probe = 20, encode-first = 4, encode-high = 4, encode-normal = 4, encode-low = 8 }
  lanes  = ["", "-1", "-2", "-3"]
}

resource "azapi_resource" "web" {
  type      = "Microsoft.App/containerApps@2025-01-01"
  name      = "${var.name}-web"
  parent_id = azapi_resource.group.id
  location  = var.location
  identity {
    type         = "UserAssigned"
    identity_ids = [azapi_resource.identity["web"].id]
  }
  body = {
    properties = {
      environmentId       = azapi_resource.environment.id
      workloadProfileName = "Consumption"
      configuration = {
        activeRevisionsMode = "Single"
        registries          = [for server in local.registries : { server = server, identity = azapi_resource.identity["web"].id }]
        secrets             = local.kept.webrole
        ingress             = { external = true, targetPort = 8080, transport = "auto", allowInsecure = false, traffic = [{ latestRevision = true, weight = 100 }] }
      }
      template = {
        terminationGracePeriodSeconds = 40
        containers = [{
          name      = "webrole"
          image     = var.images.webrole
          resources = { cpu = 0.5, memory = "1Gi" }
          env = concat(local.storage, local.otlp, local.front, local.given.webrole, [
            { name = "AZURE_CLIENT_ID", value = azapi_resource.identity["web"].output.properties.clientId },
            { name = "WEBROLE_TOKEN", secretRef = "token" },
            { name = "WEBROLE_SCALE_FLOOR", value = tostring(var.workers.min) },
            { name = "WEBROLE_SCALE_CEILING", value = tostring(var.workers.max) },
          ])
          probes = [
            { type = "Liveness", httpGet = { path = "/livez", port = 9090 }, periodSeconds = 10, timeoutSeconds = 5 },
            { type = "Readiness", httpGet = { path = "/readyz", port = 9090 }, periodSeconds = 5, timeoutSeconds = 5 },
          ]
        }]
        scale = { minReplicas = 1, maxReplicas = 5, rules = [{ name = "requests", http = { metadata = { concurrentRequests = "100" } } }] }
      }
    }
  }
  depends_on = [azapi_resource.grant, azapi_resource.pull]
}

# The scale rules have an identity, which API versions before 2025-01-01 do not take.
resource "azapi_resource" "worker" {
  type      = "Microsoft.App/containerApps@2025-01-01"
  name      = "${var.name}-worker"
  parent_id = azapi_resource.group.id
  location  = var.location
  identity {
    type         = "UserAssigned"
    identity_ids = [azapi_resource.identity["worker"].id, azapi_resource.identity["scaler"].id]
  }
  body = {
    properties = {
      environmentId       = azapi_resource.environment.id
      workloadProfileName = "Consumption"
      configuration = {
        activeRevisionsMode = "Single"
        registries          = [for server in local.registries : { server = server, identity = azapi_resource.identity["worker"].id }]
        secrets             = local.kept.workerrole
      }
      template = {
        terminationGracePeriodSeconds = 30
        containers = [{
          name         = "workerrole"
          image        = var.images.workerrole
          resources    = { cpu = 2, memory = "4Gi" }
          volumeMounts = [{ volumeName = "scratch", mountPath = "/scratch" }]
          env = concat(local.storage, local.otlp, local.given.workerrole, [
            { name = "AZURE_CLIENT_ID", value = azapi_resource.identity["worker"].output.properties.clientId },
            { name = "WORKERROLE_ADMIN_TOKEN", secretRef = "token" },
            { name = "WORKERROLE_POOLS", value = "heavy=2,light=4" },
          ])
          probes = [{ type = "Liveness", httpGet = { path = "/livez", port = 9091 }, periodSeconds = 10, timeoutSeconds = 5 }]
        }]
        volumes = [{ name = "scratch", storageType = "EmptyDir" }]
        scale = {
          minReplicas = var.workers.min
          maxReplicas = var.workers.max
          rules = flatten([for queue, messages in local.signal : [for lane in local.lanes : {
            name = "${queue}${lane}"
            azureQueue = {
              accountName = azapi_resource.account.name
              queueName   = "${queue}${lane}"
              queueLength = messages
              identity    = azapi_resource.identity["scaler"].id
            }
          }]])
        }
      }
    }
  }
  depends_on = [azapi_resource.grant, azapi_resource.pull]
}
