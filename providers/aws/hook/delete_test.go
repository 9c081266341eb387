package hook

import (
	"context"
	"strings"
	"testing"
	"time"
)

func target(identifier string, annotations ...string) Target {
	t := Target{Resource: Resource{Identifier: identifier}, Account: "123456789012", Annotations: map[string]string{}, Deleted: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}
	for i := 0; i+1 < len(annotations); i += 2 {
		t.Annotations[annotations[i]] = annotations[i+1]
	}
	return t
}

func TestNothingIsDoneBeforeADeletionWithoutAnAnnotation(t *testing.T) {
	f, config := newFake(t, nil)
	for _, name := range Types() {
		before := For(name).BeforeDelete
		if before == nil {
			continue
		}
		if waiting, err := before(context.Background(), config, target("one", AnnotationEmpty, "yes")); waiting != "" || err != nil || len(f.calls) > 0 {
			t.Errorf("%s: waiting %q, %v, calls %s", name, waiting, err, f.called())
		}
	}
}

func TestABucketIsEmptiedWithAllVersions(t *testing.T) {
	const list = "GET /b?versions"
	page := func(truncated string) string {
		return `<ListVersionsResult><IsTruncated>` + truncated + `</IsTruncated><Version><Key>a b</Key><VersionId>v1</VersionId></Version><DeleteMarker><Key>c</Key><VersionId>v2</VersionId></DeleteMarker></ListVersionsResult>`
	}
	removed := `<DeleteResult></DeleteResult>`
	f, config := newFake(t, map[string][]string{list: {page("true"), page("false")}, "POST /b?delete": {removed}})
	waiting, err := emptyBucket(context.Background(), config, target("b", AnnotationEmpty, "true"))
	if waiting != "" || err != nil || f.called() != list+" POST /b?delete "+list+" POST /b?delete" {
		t.Errorf("waiting %q, %v, calls %s", waiting, err, f.called())
	}
	if body := f.bodies[1]; !strings.Contains(body, "<Key>a b</Key><VersionId>v1</VersionId>") || !strings.Contains(body, "<Key>c</Key><VersionId>v2</VersionId>") {
		t.Errorf("removed %s", body)
	}

	_, config = newFake(t, map[string][]string{list: {page("true")}, "POST /b?delete": {removed}})
	if waiting, err := emptyBucket(context.Background(), config, target("b", AnnotationEmpty, "true")); err != nil || !strings.Contains(waiting, "20 object versions") {
		t.Errorf("of a large bucket: waiting %q, %v", waiting, err)
	}
	_, config = newFake(t, map[string][]string{list: {page("false")}, "POST /b?delete": {`<DeleteResult><Error><Key>c</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>`}})
	if _, err := emptyBucket(context.Background(), config, target("b", AnnotationEmpty, "true")); err == nil || !strings.Contains(err.Error(), `1 of 2 were not removed; of "c": AccessDenied: locked`) {
		t.Errorf("of a locked object: %v", err)
	}
	_, config = newFake(t, map[string][]string{list: {`!<Error><Code>NoSuchBucket</Code><Message>text</Message></Error>`}})
	if waiting, err := emptyBucket(context.Background(), config, target("b", AnnotationEmpty, "true")); waiting != "" || err != nil {
		t.Errorf("of a missing bucket: waiting %q, %v", waiting, err)
	}
}

func TestARoleIsDetached(t *testing.T) {
	result := func(action, text string) []string {
		return []string{"<" + action + "Response><" + action + "Result>" + text + "</" + action + "Result></" + action + "Response>"}
	}
	all := map[string][]string{
		"ListInstanceProfilesForRole":   result("ListInstanceProfilesForRole", `<InstanceProfiles><member><InstanceProfileName>p</InstanceProfileName></member></InstanceProfiles><IsTruncated>false</IsTruncated>`),
		"ListAttachedRolePolicies":      result("ListAttachedRolePolicies", `<AttachedPolicies><member><PolicyArn>arn:1</PolicyArn></member></AttachedPolicies><IsTruncated>true</IsTruncated>`),
		"ListRolePolicies":              result("ListRolePolicies", `<PolicyNames><member>inline</member></PolicyNames><IsTruncated>false</IsTruncated>`),
		"RemoveRoleFromInstanceProfile": {fault("NoSuchEntity")}, "DetachRolePolicy": result("DetachRolePolicy", ""), "DeleteRolePolicy": result("DeleteRolePolicy", ""),
	}
	f, config := newFake(t, all)
	waiting, err := detachRole(context.Background(), config, target("role", AnnotationEmpty, "true"))
	want := "ListInstanceProfilesForRole RemoveRoleFromInstanceProfile ListAttachedRolePolicies DetachRolePolicy ListRolePolicies DeleteRolePolicy"
	if err != nil || !strings.Contains(waiting, "detached") || f.called() != want {
		t.Errorf("waiting %q, %v, calls %s", waiting, err, f.called())
	}
	if f.forms[1].Get("InstanceProfileName") != "p" || f.forms[3].Get("PolicyArn") != "arn:1" || f.forms[5].Get("PolicyName") != "inline" || f.forms[5].Get("RoleName") != "role" {
		t.Errorf("got %v", f.forms)
	}
	_, config = newFake(t, map[string][]string{"ListInstanceProfilesForRole": {fault("NoSuchEntity")}})
	if waiting, err := detachRole(context.Background(), config, target("role", AnnotationEmpty, "true")); waiting != "" || err != nil {
		t.Errorf("of a missing role: waiting %q, %v", waiting, err)
	}
}

func TestAFinalSnapshotIsTakenAndAwaited(t *testing.T) {
	instance := func(of, status, at string) string {
		return `<DescribeDBSnapshotsResponse><DescribeDBSnapshotsResult><DBSnapshots><DBSnapshot><DBSnapshotIdentifier>last</DBSnapshotIdentifier><DBInstanceIdentifier>` + of + `</DBInstanceIdentifier><Status>` + status + `</Status>` + at + `</DBSnapshot></DBSnapshots></DescribeDBSnapshotsResult></DescribeDBSnapshotsResponse>`
	}
	cluster := func(status string) string {
		return `<DescribeDBClusterSnapshotsResponse><DescribeDBClusterSnapshotsResult><DBClusterSnapshots><DBClusterSnapshot><DBClusterIdentifier>db</DBClusterIdentifier><Status>` + status + `</Status></DBClusterSnapshot></DBClusterSnapshots></DescribeDBClusterSnapshotsResult></DescribeDBClusterSnapshotsResponse>`
	}
	volume := func(state, at string) string {
		return `<DescribeSnapshotsResponse><snapshotSet><item><snapshotId>snap-1</snapshotId><status>` + state + `</status>` + at + `</item></snapshotSet></DescribeSnapshotsResponse>`
	}
	const (
		after, before = `<SnapshotCreateTime>2026-11-01T12:05:00Z</SnapshotCreateTime>`, `<SnapshotCreateTime>2026-10-01T12:00:00Z</SnapshotCreateTime>`
		created       = `<CreateDBSnapshotResponse><CreateDBSnapshotResult></CreateDBSnapshotResult></CreateDBSnapshotResponse>`
	)
	for name, tc := range map[string]struct {
		typ     string
		answers map[string][]string
		waiting string
		err     string
		calls   string
	}{
		"it is created":                  {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {fault("DBSnapshotNotFound")}, "CreateDBSnapshot": {created}}, "being created", "", "DescribeDBSnapshots CreateDBSnapshot"},
		"it was created and hidden":      {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {fault("DBSnapshotNotFound")}, "CreateDBSnapshot": {fault("DBSnapshotAlreadyExists")}}, "being created", "", "DescribeDBSnapshots CreateDBSnapshot"},
		"it is in progress":              {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {instance("db", "creating", "")}}, "is creating", "", "DescribeDBSnapshots"},
		"it is done":                     {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {instance("db", "available", after)}}, "", "", "DescribeDBSnapshots"},
		"it is of earlier":               {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {instance("db", "available", before)}}, "", "before the deletion", "DescribeDBSnapshots"},
		"it is of another":               {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {instance("other", "available", after)}}, "", "one of other", "DescribeDBSnapshots"},
		"it has failed":                  {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {instance("db", "failed", after)}}, "", "has failed", "DescribeDBSnapshots"},
		"the instance has another state": {"AWS::RDS::DBInstance", map[string][]string{"DescribeDBSnapshots": {fault("DBSnapshotNotFound")}, "CreateDBSnapshot": {fault("InvalidDBInstanceState")}}, "", "InvalidDBInstanceState", "DescribeDBSnapshots CreateDBSnapshot"},
		"a cluster's is created":         {"AWS::RDS::DBCluster", map[string][]string{"DescribeDBClusterSnapshots": {fault("DBClusterSnapshotNotFoundFault")}, "CreateDBClusterSnapshot": {strings.ReplaceAll(created, "DBSnapshot", "DBClusterSnapshot")}}, "being created", "", "DescribeDBClusterSnapshots CreateDBClusterSnapshot"},
		"a cluster's is done":            {"AWS::RDS::DBCluster", map[string][]string{"DescribeDBClusterSnapshots": {cluster("available")}}, "", "", "DescribeDBClusterSnapshots"},
		"a volume's is created": {"AWS::EC2::Volume", map[string][]string{
			"DescribeSnapshots": {volume("completed", "<startTime>2026-10-01T12:00:00Z</startTime>")}, "CreateSnapshot": {`<CreateSnapshotResponse><snapshotId>snap-2</snapshotId></CreateSnapshotResponse>`},
		}, "snap-2 is being created", "", "DescribeSnapshots CreateSnapshot"},
		"a volume's is in progress": {"AWS::EC2::Volume", map[string][]string{"DescribeSnapshots": {volume("pending", "")}}, "snap-1 is pending", "", "DescribeSnapshots"},
		"a volume's is done":        {"AWS::EC2::Volume", map[string][]string{"DescribeSnapshots": {volume("completed", "")}}, "", "", "DescribeSnapshots"},
		"a volume's has failed":     {"AWS::EC2::Volume", map[string][]string{"DescribeSnapshots": {volume("error", "")}}, "", "snap-1 has failed", "DescribeSnapshots"},
	} {
		f, config := newFake(t, tc.answers)
		waiting, err := For(tc.typ).BeforeDelete(context.Background(), config, target("db", AnnotationFinalSnapshot, "last"))
		if err != nil != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (waiting != "" != (tc.waiting != "") || !strings.Contains(waiting, tc.waiting)) {
			t.Errorf("%s: waiting %q", name, waiting)
		}
		if f.called() != tc.calls {
			t.Errorf("%s: calls %s", name, f.called())
		}
	}
	_, config := newFake(t, nil)
	if _, err := snapshotDBInstance(context.Background(), config, target("db", AnnotationFinalSnapshot, "no--name")); err == nil || !strings.Contains(err.Error(), "not the name") {
		t.Errorf("got %v", err)
	}
	member := target("db", AnnotationFinalSnapshot, "last")
	member.Properties = map[string]any{"DBClusterIdentifier": "cluster"}
	if waiting, err := snapshotDBInstance(context.Background(), config, member); waiting != "" || err != nil {
		t.Errorf("an instance of a cluster: waiting %q, %v", waiting, err)
	}
}
