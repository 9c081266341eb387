package launch

import (
	"path"
	"strings"
)

// unneeded are folders of base images with files that a static program does without, or finds on this machine too.
var unneeded = []string{
	"etc", "usr/share/base-files", "usr/share/bug", "usr/share/ca-certificates", "usr/share/common-licenses", "usr/share/doc", "usr/share/lintian",
	"usr/share/zoneinfo", "usr/lib/ssl", "usr/lib/os-release", "usr/sbin/tzconfig", "var/lib/dpkg", "var/lib/apk", "lib/apk", ".up", "package.yaml",
}

// IsUnneeded reports whether a static program runs without a file of its image, by its path in the image.
func IsUnneeded(file string) bool {
	file = strings.TrimPrefix(file, "/")
	for _, folder := range unneeded {
		if file == folder || strings.HasPrefix(file, folder+"/") {
			return true
		}
	}
	name := path.Base(file)
	return strings.HasSuffix(name, ".so") || strings.Contains(name, ".so.") || strings.Contains(file, "/gconv/") || strings.HasPrefix(name, ".")
}
