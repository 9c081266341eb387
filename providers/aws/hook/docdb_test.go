package hook

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/docdb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/model"
	"github.com/espalier-dev/espalier/providers/aws/testkit/cloudcontroltest"
)

// newDocDB returns an API of DocumentDB whose changes are done at once, and the configuration for it.
func newDocDB(t *testing.T) (*cloudcontroltest.DocDB, aws.Config) {
	t.Helper()
	d := cloudcontroltest.NewDocDB(time.Now, 0)
	return d, d.Config()
}

func TestOfADocDBClusterOnlyWhatDiffersIsChanged(t *testing.T) {
	d, config := newDocDB(t)
	h, ctx := docDBClusters{}, context.Background()
	desired := properties(t, `{"DBClusterIdentifier":"main","MasterUsername":"root","MasterUserPassword":"correct-horse","EngineVersion":"5.0","Tags":[{"Key":"team","Value":"a"},{"Key":"old","Value":"1"}]}`)
	created, err := h.Create(ctx, config, desired, nil)
	if err != nil || created.Identifier != "main" {
		t.Fatalf("%+v, %v", created, err)
	}
	if _, err := h.Create(ctx, config, desired, nil); !hasCode(err, "DBClusterAlreadyExistsFault") {
		t.Errorf("a second creation: %v", err)
	}
	read, err := h.Read(ctx, config, "main")
	if err != nil || read.Busy || read.Properties["Status"] != "available" || read.Properties["MasterUserPassword"] != nil || read.Properties["Endpoint"] != "main.example.org" {
		t.Fatalf("%+v, %v", read, err)
	}
	if diff := cmp.Diff([]any{map[string]any{"Key": "old", "Value": "1"}, map[string]any{"Key": "team", "Value": "a"}}, read.Properties["Tags"]); diff != "" {
		t.Error(diff)
	}
	before := len(d.Calls())
	desired = properties(t, `{"DBClusterIdentifier":"main","EngineVersion":"5.0","Tags":[{"Key":"team","Value":"b"}]}`)
	if err := h.Update(ctx, config, "main", desired); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.Calls()[before:], " "); got != "DescribeDBClusters ListTagsForResource AddTagsToResource RemoveTagsFromResource" {
		t.Errorf("a change of tags: %s", got)
	}
	if err := h.Update(ctx, config, "main", map[string]any{"BackupRetentionPeriod": int64(7)}); err != nil {
		t.Fatal(err)
	}
	read, err = h.Read(ctx, config, "main")
	if err != nil || read.Properties["BackupRetentionPeriod"] != int64(7) || cmp.Diff([]any{map[string]any{"Key": "team", "Value": "b"}}, read.Properties["Tags"]) != "" {
		t.Errorf("%+v, %v", read, err)
	}
	if err := h.Update(ctx, config, "other", desired); err == nil {
		t.Error("what does not exist is updated")
	}
	for range 2 {
		if err := h.Delete(ctx, config, "main"); err != nil {
			t.Error(err)
		}
	}
}

func TestTheChangeOfADocDBCluster(t *testing.T) {
	present := types.DBCluster{
		DBClusterIdentifier: aws.String("main"), EngineVersion: aws.String("5.0.0"), Port: aws.Int32(27017), PreferredMaintenanceWindow: aws.String("sun:05:00-sun:06:00"),
		VpcSecurityGroups:            []types.VpcSecurityGroupMembership{{VpcSecurityGroupId: aws.String("sg-1")}, {VpcSecurityGroupId: aws.String("sg-2")}},
		EnabledCloudwatchLogsExports: []string{"audit"}, MasterUserSecret: &types.ClusterMasterUserSecret{KmsKeyId: aws.String("arn:aws:kms:r:1:key/k")},
		ServerlessV2ScalingConfiguration: &types.ServerlessV2ScalingConfigurationInfo{MinCapacity: aws.Float64(1), MaxCapacity: aws.Float64(8)},
	}
	same := `{"EngineVersion":"5.0","Port":27017,"PreferredMaintenanceWindow":"Sun:05:00-Sun:06:00","VpcSecurityGroupIds":["sg-2","sg-1"],"EnableCloudwatchLogsExports":["audit"],
		"ManageMasterUserPassword":true,"MasterUserSecretKmsKeyId":"k","StorageType":"standard","ServerlessV2ScalingConfiguration":{"MinCapacity":1,"MaxCapacity":8}}`
	for name, tc := range map[string]struct{ properties, want string }{
		"nothing":               {same, ""},
		"a major version":       {`{"EngineVersion":"8.0","AllowMajorVersionUpgrade":true}`, "AllowMajorVersionUpgrade EngineVersion"},
		"a version by its part": {`{"EngineVersion":"5"}`, ""},
		"only a permission":     {`{"AllowMajorVersionUpgrade":true}`, ""},
		"security groups":       {`{"VpcSecurityGroupIds":["sg-1"]}`, "VpcSecurityGroupIds"},
		"logs":                  {`{"EnableCloudwatchLogsExports":["profiler"]}`, "CloudwatchLogsExportConfiguration"},
		"a password":            {`{"MasterUserPassword":"correct-horse"}`, "MasterUserPassword"},
		"capacity":              {`{"ServerlessV2ScalingConfiguration":{"MinCapacity":1,"MaxCapacity":16}}`, "ServerlessV2ScalingConfiguration"},
		"storage":               {`{"StorageType":"iopt1"}`, "StorageType"},
		"the key of a secret":   {`{"MasterUserSecretKmsKeyId":"other"}`, "MasterUserSecretKmsKeyId"},
	} {
		c, err := decodeProperties[docDBCluster](properties(t, tc.properties))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(setFields(c.modify(present)), " "); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestTheChangeOfADocDBInstance(t *testing.T) {
	present := *withPending(types.DBInstance{
		DBInstanceIdentifier: aws.String("one"), DBInstanceClass: aws.String("db.t4g.medium"), CACertificateIdentifier: aws.String("old"),
		PendingModifiedValues: &types.PendingModifiedValues{DBInstanceClass: aws.String("db.r6g.large")},
	})
	for name, tc := range map[string]struct{ properties, want string }{
		"a change that was accepted": {`{"DBInstanceClass":"db.r6g.large","CertificateRotationRestart":true}`, ""},
		"a change back":              {`{"DBInstanceClass":"db.t4g.medium"}`, "DBInstanceClass"},
		"a certificate":              {`{"CACertificateIdentifier":"new","CertificateRotationRestart":true}`, "CACertificateIdentifier CertificateRotationRestart"},
		"insights":                   {`{"EnablePerformanceInsights":true,"PerformanceInsightsKMSKeyId":"k"}`, "EnablePerformanceInsights PerformanceInsightsKMSKeyId"},
	} {
		i, err := decodeProperties[docDBInstance](properties(t, tc.properties))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(setFields(i.modify(present)), " "); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// A cluster of a snapshot has the password of the snapshot: its tags must not say that another one was sent.
func TestARestoredDocDBClusterGetsItsPasswordLater(t *testing.T) {
	c, err := decodeProperties[docDBCluster](properties(t, `{"DBClusterIdentifier":"main","SnapshotIdentifier":"last","Tags":[{"Key":"`+model.TagSent+`","Value":"1"},{"Key":"team","Value":"a"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	in := c.restore()
	if aws.ToString(in.SnapshotIdentifier) != "last" || len(in.Tags) != 1 || aws.ToString(in.Tags[0].Key) != "team" {
		t.Errorf("got %+v", in)
	}
}

// RDS has the clusters of all engines under one name.
func TestAnAuroraClusterIsNoDocDBCluster(t *testing.T) {
	_, config := newFake(t, map[string][]string{"DescribeDBClusters": {`<DescribeDBClustersResponse><DescribeDBClustersResult><DBClusters><DBCluster><DBClusterIdentifier>main</DBClusterIdentifier><Engine>aurora-mysql</Engine></DBCluster></DBClusters></DescribeDBClustersResult></DescribeDBClustersResponse>`}})
	if read, err := (docDBClusters{}).Read(context.Background(), config, "main"); read != nil || err != nil {
		t.Errorf("%+v, %v", read, err)
	}
}

// setFields returns the fields of a change that are set, but those that all changes have.
func setFields(change any) []string {
	var out []string
	for _, name := range fieldsOf(change) {
		if !slices.Contains([]string{"ApplyImmediately", "DBClusterIdentifier", "DBInstanceIdentifier"}, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func fieldsOf(change any) (names []string) {
	v := reflect.ValueOf(change)
	if v.IsNil() {
		return nil
	}
	for i := range v.Elem().NumField() {
		if f := v.Elem().Type().Field(i); f.IsExported() && !v.Elem().Field(i).IsZero() {
			names = append(names, f.Name)
		}
	}
	return names
}
