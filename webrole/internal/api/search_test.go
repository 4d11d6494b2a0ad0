package api

func init() {
	ofDomain["Facet"] = Facet{}
	ofDomain["Facets"] = Facets{}
	ofDomain["SearchWords"] = SearchWords{}
}
