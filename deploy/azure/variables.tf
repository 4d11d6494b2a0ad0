variable "subscription" {
  type        = string
  description = "Id of the subscription."
  validation {
    condition     = can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.subscription))
    error_message = "Want the id of a subscription, in lower case."
  }
}

variable "name" {
  type        = string
  description = "Name of everything that is made; of the storage account, too, so it must be new in all of Azure."
  validation {
    condition     = can(regex("^[a-z][a-z0-9]{2,19}$", var.name))
    error_message = "Want 3 to 20 lower-case letters and digits."
  }
}

variable "location" {
  type        = string
  default     = "westeurope"
  description = "Region."
}

variable "images" {
  type        = object({ webrole = string, workerrole = string })
  description = "The images, as `make images` made them and you pushed them; by digest, so that they stay what they are."
}

variable "registry" {
  type        = object({ id = string, server = string })
  default     = null
  description = "A container registry of Azure that holds the images: its resource id and its host. Null: the images are public."
}

variable "token" {
  type        = string
  sensitive   = true
  description = "WEBROLE_TOKEN and WORKERROLE_ADMIN_TOKEN."
  validation {
    condition     = length(var.token) >= 16
    error_message = "Want at least 16 characters."
  }
}

variable "origins" {
  type        = list(string)
  default     = []
  description = "Where people see the pages besides the web app's own address, such as https://video.example.org."
}

variable "hosts" {
  type        = list(string)
  default     = []
  description = "WEBROLE_HOSTS: names that the web role answers for besides the web app's own, such as video.example.org. Empty: every name that the ingress passes on."
  validation {
    condition     = alltrue([for host in var.hosts : can(regex("^[a-z0-9.-]+$", host))])
    error_message = "Want names of hosts, in lower case and without https://."
  }
}

variable "proxies" {
  type        = list(string)
  default     = []
  description = "WEBROLE_TRUSTED_PROXIES: the networks from which the ingress reaches the web role, such as 10.0.0.0/8. Empty: all users are one client."
}

variable "env" {
  type        = object({ webrole = optional(map(string), {}), workerrole = optional(map(string), {}) })
  default     = {}
  description = "More settings of the roles, by name: docs/configuration.md."
}

variable "secrets" {
  type        = object({ webrole = optional(map(string), {}), workerrole = optional(map(string), {}) })
  default     = {}
  sensitive   = true
  description = "Settings that are secrets of the apps, such as WEBROLE_OIDC_CLIENT_SECRET and WEBROLE_SESSION_KEYS. A value that begins with https:// is the address of a secret in a Key Vault, which the role's identity may read."
}

variable "ops" {
  type        = list(string)
  default     = null
  description = "Networks such as 203.0.113.0/24 from which operators reach /api/v1/ops and the board at the web app's address. It needs proxies. Null: they are not there."
  validation {
    condition     = var.ops == null || length(coalesce(var.ops, [])) > 0 && length(var.proxies) > 0
    error_message = "Want at least one network, 0.0.0.0/0 for operators anywhere; and proxies, or the ingress is the one client."
  }
}

variable "workers" {
  type        = object({ min = number, max = number })
  default     = { min = 1, max = 10 }
  description = "Fewest and most workers."
  validation {
    # One worker does the upkeep: docs/decisions/0033-at-least-one-worker.md.
    condition     = var.workers.min >= 1 && var.workers.max >= var.workers.min && var.workers.max <= 300
    error_message = "Want at least 1 worker, and at most 300."
  }
}

variable "traces" {
  type        = bool
  default     = false
  description = "Send traces to Application Insights, through a collector."
}

variable "budget" {
  type        = object({ dollars = number, start = string, emails = list(string) })
  default     = null
  description = "Alerts when the month's costs of the resource group pass 50, 80 and 100 % of this; start is the first of a month, such as 2026-12-01T00:00:00Z."
}
