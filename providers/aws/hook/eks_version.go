package hook

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
)

// kubernetesVersion matches versions as EKS names them.
var kubernetesVersion = regexp.MustCompile(`^1\.([0-9]{1,3})$`)

// It returns false for another form.
func minorVersion(version string) (minor int, ok bool) {
	found := kubernetesVersion.FindStringSubmatch(version)
	if found == nil {
		return 0, false
	}
	minor, err := strconv.Atoi(found[1])
	return minor, err == nil
}

// nextVersion returns the version that a cluster can have next on its way to another one: EKS changes one minor
// version at a time, and never back. refused is why there is none. Versions of another form are left to EKS.
func nextVersion(present, wanted string) (next, refused string) {
	from, isKnown := minorVersion(present)
	to, areKnown := minorVersion(wanted)
	switch {
	case !isKnown || !areKnown:
		return wanted, ""
	case to < from:
		return "", fmt.Sprintf("EKS cannot change the version of a cluster from %s back to %s: set spec.forProvider.Version to %s or later", present, wanted, present)
	case to > from+1:
		return "1." + strconv.Itoa(from+1), ""
	}
	return wanted, ""
}

// The version changes by one minor version.
func stepClusterVersion(_ context.Context, _ Reader, present, wanted map[string]any) Step {
	from, to := text(present, "Version"), text(wanted, "Version")
	if from == "" || to == "" || from == to {
		return Step{}
	}
	next, refused := nextVersion(from, to)
	switch {
	case refused != "":
		return Step{Wanted: withoutProperty(wanted, "Version"), Refused: refused}
	case next == to:
		return Step{}
	}
	out := maps.Clone(wanted)
	out["Version"] = next
	return Step{Wanted: out, Progress: fmt.Sprintf("Version %s after %s, one minor version at a time until %s", next, from, to)}
}

// It waits until the cluster of the node group has the version.
func stepNodegroupVersion(ctx context.Context, read Reader, present, wanted map[string]any) Step {
	from, to, name := text(present, "Version"), text(wanted, "Version"), text(present, "ClusterName")
	if from == "" || to == "" || from == to || name == "" {
		return Step{}
	}
	cluster, err := read(ctx, "AWS::EKS::Cluster", name)
	refused := nodegroupRefused(name, text(cluster, "Version"), from, to)
	if err != nil {
		refused = fmt.Sprintf("the version of the cluster %s, which its node groups follow, cannot be read: %v", name, err)
	}
	if refused == "" {
		return Step{}
	}
	return Step{Wanted: withoutProperty(wanted, "Version"), Refused: refused}
}

// It is empty if the node group can change its version.
func nodegroupRefused(cluster, clusterVersion, present, wanted string) string {
	from, isKnown := minorVersion(present)
	to, areKnown := minorVersion(wanted)
	limit, isLimited := minorVersion(clusterVersion)
	switch {
	case isKnown && areKnown && to < from:
		return fmt.Sprintf("EKS cannot change the version of a node group from %s back to %s: set spec.forProvider.Version to %s or later", present, wanted, present)
	case areKnown && isLimited && to > limit:
		return fmt.Sprintf("a node group cannot have version %s while its cluster %s has %s: its version is changed when the cluster has it", wanted,
			cluster, clusterVersion)
	}
	return ""
}

func withoutProperty(properties map[string]any, name string) map[string]any {
	out := maps.Clone(properties)
	delete(out, name)
	return out
}
