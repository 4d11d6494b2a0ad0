package api

func init() {
	ofDomain["Key"] = Key{}
}
