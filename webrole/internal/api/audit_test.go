package api

func init() {
	ofDomain["AuditEntry"] = AuditEntry{}
}
