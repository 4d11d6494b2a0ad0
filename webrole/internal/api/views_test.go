package api

func init() {
	ofDomain["Views"] = Views{}
}
