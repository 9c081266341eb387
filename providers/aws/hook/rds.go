package hook

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/rds"
	"github.com/aws/aws-sdk-go-v2/service/rds/types"
)

// dbInstanceConnection returns the address of an instance. The password is where the user has given it, or in
// AWS's Secrets Manager.
func dbInstanceConnection(t Target) map[string][]byte {
	return pick(t.Properties, "endpoint", "Endpoint.Address", "port", "Endpoint.Port", "username", "MasterUsername", "database", "DBName",
		"secretArn", "MasterUserSecret.SecretArn")
}

func dbClusterConnection(t Target) map[string][]byte {
	return pick(t.Properties, "endpoint", "Endpoint.Address", "port", "Endpoint.Port", "readerEndpoint", "ReadEndpoint.Address",
		"username", "MasterUsername", "database", "DatabaseName", "secretArn", "MasterUserSecret.SecretArn")
}

// clockSkew is how much the clocks of AWS and of the API server may differ.
const clockSkew = time.Minute

var snapshotName = regexp.MustCompile(`^[A-Za-z](-?[A-Za-z0-9])*$`)

// It is empty if there is to be none.
func checkSnapshotName(t Target) (string, error) {
	name := t.Annotations[AnnotationFinalSnapshot]
	if name != "" && (!snapshotName.MatchString(name) || len(name) > 255) {
		return "", fmt.Errorf("the annotation %s: %q is not the name of a snapshot: letters, digits and single hyphens, beginning with a letter, at most 255", AnnotationFinalSnapshot, name)
	}
	return name, nil
}

// snapshot is a snapshot with the name of the final one. It is taken at no time while it is being created.
type snapshot struct {
	kind, name, of, status string
	taken                  *time.Time
}

// One of another database, or of an earlier time, is not the final one.
func (s snapshot) step(t Target) (waiting string, err error) {
	kind, name, status := s.kind, s.name, s.status
	switch {
	case s.of != t.Identifier:
		return "", fmt.Errorf("the %s %s of the annotation %s is one of %s: choose another name", kind, name, AnnotationFinalSnapshot, s.of)
	case s.taken != nil && s.taken.Before(t.Deleted.Add(-clockSkew)):
		return "", fmt.Errorf("the %s %s of the annotation %s is of %s, before the deletion: choose another name", kind, name, AnnotationFinalSnapshot,
			s.taken.UTC().Format(time.RFC3339))
	case status == "available":
		return "", nil
	case status == "failed":
		return "", fmt.Errorf("the %s %s has failed: delete it, or choose another name in the annotation %s", kind, name, AnnotationFinalSnapshot)
	}
	return fmt.Sprintf("the %s %s is %s", kind, name, status), nil
}

// snapshotDBInstance takes a snapshot of an instance before its deletion: Cloud Control may delete it without one. An
// instance of a cluster has no snapshots; the cluster's contain its data.
func snapshotDBInstance(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	name, err := checkSnapshotName(t)
	if name == "" || err != nil || text(t.Properties, "DBClusterIdentifier") != "" {
		return "", err
	}
	client := rds.NewFromConfig(config)
	found, err := client.DescribeDBSnapshots(ctx, &rds.DescribeDBSnapshotsInput{DBSnapshotIdentifier: &name})
	var missing *types.DBSnapshotNotFoundFault
	switch {
	case errors.As(err, &missing) || err == nil && len(found.DBSnapshots) == 0:
		_, err = client.CreateDBSnapshot(ctx, &rds.CreateDBSnapshotInput{DBInstanceIdentifier: &t.Identifier, DBSnapshotIdentifier: &name})
		var exists *types.DBSnapshotAlreadyExistsFault
		if errors.As(err, &exists) { // an earlier call, which the read did not show yet
			err = nil
		}
		return "the DB snapshot " + name + " is being created", err
	case err != nil:
		return "", err
	}
	one := found.DBSnapshots[0]
	return snapshot{"DB snapshot", name, aws.ToString(one.DBInstanceIdentifier), aws.ToString(one.Status), one.SnapshotCreateTime}.step(t)
}

// snapshotDBCluster takes a snapshot of a cluster before its deletion: Cloud Control may delete it without one.
func snapshotDBCluster(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	name, err := checkSnapshotName(t)
	if name == "" || err != nil {
		return "", err
	}
	client := rds.NewFromConfig(config)
	found, err := client.DescribeDBClusterSnapshots(ctx, &rds.DescribeDBClusterSnapshotsInput{DBClusterSnapshotIdentifier: &name})
	var missing *types.DBClusterSnapshotNotFoundFault
	switch {
	case errors.As(err, &missing) || err == nil && len(found.DBClusterSnapshots) == 0:
		_, err = client.CreateDBClusterSnapshot(ctx, &rds.CreateDBClusterSnapshotInput{DBClusterIdentifier: &t.Identifier, DBClusterSnapshotIdentifier: &name})
		var exists *types.DBClusterSnapshotAlreadyExistsFault
		if errors.As(err, &exists) {
			err = nil
		}
		return "the DB cluster snapshot " + name + " is being created", err
	case err != nil:
		return "", err
	}
	one := found.DBClusterSnapshots[0]
	return snapshot{"DB cluster snapshot", name, aws.ToString(one.DBClusterIdentifier), aws.ToString(one.Status), one.SnapshotCreateTime}.step(t)
}
