package main

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// krewManifest is the manifest of the plugin "kubectl espalier".
func krewManifest(o *options, archives map[platform]string, files map[string][]byte) ([]byte, error) {
	var platforms []any
	for _, p := range o.platforms {
		name := archives[p]
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": p.os, "arch": p.arch}},
			"uri":      strings.TrimSuffix(o.baseURL, "/") + "/" + name,
			"sha256":   fmt.Sprintf("%x", sha256.Sum256(files[name])),
			"bin":      p.file(program),
			"files": []any{
				map[string]any{"from": p.file(program), "to": "."},
				map[string]any{"from": "LICENSE", "to": "."},
				map[string]any{"from": "THIRD_PARTY_LICENSES", "to": "."},
			},
		})
	}
	spec := map[string]any{
		"version":          o.version,
		"shortDescription": "Inspect and operate Espalier platform APIs",
		"description": "Shows the tree of an instance and what each resource waits for, deletes instances\n" +
			"and reports what blocks the deletion, and exports and imports control planes.\n",
		"platforms": platforms,
	}
	if o.project != "" {
		spec["homepage"] = o.project
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": program},
		"spec":       spec,
	})
}
