package api

func init() {
	ofDomain["Refusal"] = Refusal{}
}
