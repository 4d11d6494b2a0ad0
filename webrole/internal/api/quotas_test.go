package api

func init() {
	ofDomain["Quota"] = Quota{}
}
