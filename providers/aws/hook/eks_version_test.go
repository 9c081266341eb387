package hook

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestVersionsOfClustersChangeStepByStep(t *testing.T) {
	for name, tc := range map[string]struct{ present, wanted, next, refused string }{
		"the next":             {"1.29", "1.30", "", ""},
		"a jump":               {"1.29", "1.32", "1.30", ""},
		"across a digit":       {"1.9", "1.11", "1.10", ""},
		"back":                 {"1.30", "1.29", "", "cannot change the version of a cluster from 1.30 back to 1.29"},
		"no change":            {"1.30", "1.30", "", ""},
		"with a patch version": {"1.29", "1.32.1", "", ""},
		"of another form":      {"1.29", "latest", "", ""},
		"of another major":     {"1.29", "2.0", "", ""},
		"not wanted":           {"1.29", "", "", ""},
		"not read":             {"", "1.32", "", ""},
	} {
		wanted := map[string]any{"Name": "prod", "Version": tc.wanted}
		got := stepClusterVersion(context.Background(), nil, map[string]any{"Version": tc.present}, wanted)
		switch {
		case wanted["Version"] != tc.wanted:
			t.Errorf("%s: what is wanted has changed", name)
		case tc.refused != "":
			if _, has := got.Wanted["Version"]; !strings.Contains(got.Refused, tc.refused) || has || got.Wanted["Name"] != "prod" {
				t.Errorf("%s: %+v", name, got)
			}
		case tc.next == "":
			if got.Wanted != nil || got.Refused != "" || got.Progress != "" {
				t.Errorf("%s: %+v", name, got)
			}
		case got.Wanted["Version"] != tc.next || got.Wanted["Name"] != "prod" || !strings.Contains(got.Progress, "until "+tc.wanted) || got.Refused != "":
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestNodeGroupsFollowTheirCluster(t *testing.T) {
	for name, tc := range map[string]struct{ present, wanted, cluster, refused string }{
		"the cluster's":        {"1.29", "1.31", "1.31", ""},
		"behind the cluster":   {"1.29", "1.30", "1.31", ""},
		"ahead":                {"1.29", "1.32", "1.31", "while its cluster prod has 1.31"},
		"back":                 {"1.30", "1.29", "1.31", "back to 1.29"},
		"of another form":      {"1.29", "latest", "1.31", ""},
		"no cluster":           {"1.29", "1.30", "!", "cannot be read: AccessDenied"},
		"no change":            {"1.30", "1.30", "!", ""},
		"an unknown cluster's": {"1.29", "1.30", "", ""},
	} {
		read := func(_ context.Context, typeName, identifier string) (map[string]any, error) {
			if typeName != "AWS::EKS::Cluster" || identifier != "prod" {
				t.Errorf("%s: %s %s is read", name, typeName, identifier)
			}
			if tc.cluster == "!" {
				return nil, errors.New("AccessDenied")
			}
			return map[string]any{"Version": tc.cluster}, nil
		}
		got := stepNodegroupVersion(context.Background(), read, map[string]any{"Version": tc.present, "ClusterName": "prod"}, map[string]any{"Version": tc.wanted, "Labels": "l"})
		if (got.Refused != "") != (tc.refused != "") || !strings.Contains(got.Refused, tc.refused) {
			t.Errorf("%s: %+v", name, got)
		}
		if _, has := got.Wanted["Version"]; tc.refused != "" && (has || got.Wanted["Labels"] != "l") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
