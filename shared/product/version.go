package product

import "runtime/debug"

// version is the name of a release. Its build sets it, with -ldflags
// "-X github.com/cutroom/cutroom/shared/product.version=v1.2.0".
var version string

// Version is the version of this program: of the release, else the commit, else "dev".
func Version() string {
	if version != "" {
		return version
	}
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "dev"
}
