package hook

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

// service is a service with what exists in it. Its n-th request fails, before or after its effect.
type service struct {
	requests, failed int
	hasEffect        bool
	// has are the things that exist, such as "profile/p". A value counts what was done with one.
	has    map[string]int
	answer func(has map[string]int, action string, form url.Values, body string) string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	action := form.Get("Action")
	if action == "" {
		action = r.Method
	}
	s.requests++
	isLost := s.requests == s.failed
	answer := ""
	if !isLost || s.hasEffect {
		answer = s.answer(s.has, action, form, string(body))
	}
	w.Header().Set("Content-Type", "text/xml")
	text, isError := strings.CutPrefix(answer, "!")
	switch {
	case isLost:
		w.WriteHeader(http.StatusInternalServerError)
	case isError:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, text)
	default:
		_, _ = io.WriteString(w, text)
	}
}

// run calls the hook until it is done, as after crashes, and returns what exists then.
func (s *service) run(t *testing.T, typeName string, target Target) string {
	t.Helper()
	server := httptest.NewTLSServer(s)
	defer server.Close()
	config := aws.Config{
		Region: "eu-central-1", BaseEndpoint: &server.URL, HTTPClient: response.WithBufferedBodies(server.Client()), Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	for range 30 {
		waiting, err := For(typeName).BeforeDelete(context.Background(), config, target)
		if err == nil && waiting == "" {
			return fmt.Sprint(slices.Sorted(maps.Keys(s.has)))
		}
		if err != nil && s.requests != s.failed {
			t.Fatalf("request %d of %s: %v", s.requests, typeName, err)
		}
	}
	t.Fatalf("%s is not done: %v", typeName, s.has)
	return ""
}

// result is an answer of an action.
func result(action, content string) string {
	return "<" + action + "Response><" + action + "Result>" + content + "</" + action + "Result></" + action + "Response>"
}

// below returns the names of what exists with a prefix, sorted.
func below(has map[string]int, prefix string) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(has)) {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			names = append(names, name)
		}
	}
	return names
}

// answerIAM has lists of one item in each page.
func answerIAM(has map[string]int, action string, form url.Values, _ string) string {
	lists := map[string][3]string{
		"ListInstanceProfilesForRole": {"profile/", "InstanceProfiles", "<member><InstanceProfileName>%s</InstanceProfileName></member>"},
		"ListAttachedRolePolicies":    {"attached/", "AttachedPolicies", "<member><PolicyArn>%s</PolicyArn></member>"},
		"ListRolePolicies":            {"inline/", "PolicyNames", "<member>%s</member>"},
	}
	if list, ok := lists[action]; ok {
		names, items := below(has, list[0]), ""
		if len(names) > 0 {
			items = fmt.Sprintf(list[2], names[0])
		}
		return result(action, fmt.Sprintf("<%[1]s>%[2]s</%[1]s><IsTruncated>%[3]t</IsTruncated>", list[1], items, len(names) > 1))
	}
	key := map[string]string{
		"RemoveRoleFromInstanceProfile": "profile/" + form.Get("InstanceProfileName"), "DetachRolePolicy": "attached/" + form.Get("PolicyArn"),
		"DeleteRolePolicy": "inline/" + form.Get("PolicyName"),
	}[action]
	if _, ok := has[key]; !ok {
		return fault("NoSuchEntity")
	}
	delete(has, key)
	return result(action, "")
}

// answerS3 has lists of two versions in each page.
func answerS3(has map[string]int, method string, _ url.Values, body string) string {
	keys := below(has, "object/")
	if method == http.MethodGet {
		versions := ""
		for _, key := range keys[:min(2, len(keys))] {
			versions += "<Version><Key>" + key + "</Key><VersionId>1</VersionId></Version>"
		}
		return fmt.Sprintf("<ListVersionsResult><IsTruncated>%t</IsTruncated>%s</ListVersionsResult>", len(keys) > 2, versions)
	}
	for _, key := range keys {
		if strings.Contains(body, "<Key>"+key+"</Key>") {
			delete(has, "object/"+key)
		}
	}
	return "<DeleteResult></DeleteResult>"
}

// answerRDS has snapshots that are complete when they are read a second time.
func answerRDS(has map[string]int, action string, form url.Values, _ string) string {
	name, owner, list := "DBSnapshot", "DBInstanceIdentifier", "DBSnapshots"
	missing, exists := "DBSnapshotNotFound", "DBSnapshotAlreadyExists"
	if strings.Contains(action, "Cluster") {
		name, owner, list = "DBClusterSnapshot", "DBClusterIdentifier", "DBClusterSnapshots"
		missing, exists = "DBClusterSnapshotNotFoundFault", "DBClusterSnapshotAlreadyExistsFault"
	}
	key := "snapshot/" + form.Get(name+"Identifier")
	reads, isThere := has[key]
	switch {
	case strings.HasPrefix(action, "Create") && isThere:
		return fault(exists)
	case strings.HasPrefix(action, "Create"):
		has[key] = 0
		return result(action, "")
	case !isThere:
		return fault(missing)
	}
	has[key]++
	status := "creating"
	if reads > 0 {
		status = "available"
	}
	return result(action, fmt.Sprintf("<%[1]s><%[2]s><%[3]s>db</%[3]s><Status>%[4]s</Status></%[2]s></%[1]s>", list, name, owner, status))
}

// answerEC2 shows a snapshot as soon as it has been requested, which EC2 does not promise.
func answerEC2(has map[string]int, action string, _ url.Values, _ string) string {
	if action == "CreateSnapshot" {
		id := fmt.Sprintf("snap-%d", len(has)+1)
		has[id] = 0
		return "<CreateSnapshotResponse><snapshotId>" + id + "</snapshotId></CreateSnapshotResponse>"
	}
	items := ""
	for _, id := range slices.Sorted(maps.Keys(has)) {
		status := "pending"
		if has[id]++; has[id] > 1 {
			status = "completed"
		}
		items += "<item><snapshotId>" + id + "</snapshotId><status>" + status + "</status></item>"
	}
	return "<DescribeSnapshotsResponse><snapshotSet>" + items + "</snapshotSet></DescribeSnapshotsResponse>"
}

// TestWhatPrecedesADeletionContinuesAfterACrash lets each request of each hook fail, before and after its effect. What
// exists in the end is the same as without a failure.
func TestWhatPrecedesADeletionContinuesAfterACrash(t *testing.T) {
	snapshot := target("db", AnnotationFinalSnapshot, "last")
	for typeName, tc := range map[string]struct {
		target Target
		has    []string
		answer func(map[string]int, string, url.Values, string) string
		want   string
	}{
		"AWS::DocDB::DBCluster": {snapshot, nil, answerRDS, "[snapshot/last]"},
		"AWS::EC2::Volume":      {snapshot, nil, answerEC2, "[snap-1]"},
		"AWS::IAM::Role": {
			target("role", AnnotationEmpty, "true"),
			[]string{"profile/p1", "profile/p2", "attached/a1", "attached/a2", "attached/a3", "inline/i1", "inline/i2"}, answerIAM, "[]",
		},
		"AWS::RDS::DBCluster":  {snapshot, nil, answerRDS, "[snapshot/last]"},
		"AWS::RDS::DBInstance": {snapshot, nil, answerRDS, "[snapshot/last]"},
		"AWS::S3::Bucket":      {target("b", AnnotationEmpty, "true"), []string{"object/a", "object/b", "object/c", "object/d", "object/e"}, answerS3, "[]"},
	} {
		t.Run(typeName, func(t *testing.T) {
			newService := func() *service {
				s := &service{has: map[string]int{}, answer: tc.answer}
				for _, key := range tc.has {
					s.has[key] = 0
				}
				return s
			}
			calm := newService()
			if got := calm.run(t, typeName, tc.target); got != tc.want {
				t.Fatalf("without a failure: %s", got)
			}
			for failed := 1; failed <= calm.requests; failed++ {
				for _, hasEffect := range []bool{false, true} {
					s := newService()
					s.failed, s.hasEffect = failed, hasEffect
					if got := s.run(t, typeName, tc.target); got != tc.want {
						t.Errorf("after a failure of request %d, with effect %t: %s", failed, hasEffect, got)
					}
				}
			}
		})
	}
	for _, name := range Types() {
		if For(name).BeforeDelete != nil && !slices.Contains([]string{"AWS::DocDB::DBCluster", "AWS::EC2::Volume", "AWS::IAM::Role", "AWS::RDS::DBCluster", "AWS::RDS::DBInstance", "AWS::S3::Bucket"}, name) {
			t.Errorf("%s has a hook that is not tested here", name)
		}
	}
}
