package hook

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagFinalSnapshot marks the final snapshot of a volume, which has no name of its own.
const tagFinalSnapshot = "espalier.dev/final-snapshot"

// snapshotVolume takes a snapshot of a volume before its deletion: Cloud Control may delete it without one. EC2 might
// not show a snapshot that it has just created: after a crash at that moment there are two.
func snapshotVolume(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	name, err := checkSnapshotName(t)
	if name == "" || err != nil {
		return "", err
	}
	client := ec2.NewFromConfig(config)
	found, err := client.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"},
		Filters: []types.Filter{
			{Name: aws.String("volume-id"), Values: []string{t.Identifier}},
			{Name: aws.String("tag:" + tagFinalSnapshot), Values: []string{name}},
		},
	})
	if err != nil {
		return "", err
	}
	for _, s := range found.Snapshots {
		if s.StartTime != nil && s.StartTime.Before(t.Deleted.Add(-clockSkew)) {
			continue // of an earlier deletion, which was not completed
		}
		switch s.State {
		case types.SnapshotStateCompleted:
			return "", nil
		case types.SnapshotStateError:
			return "", fmt.Errorf("the snapshot %s has failed: delete it, or change the annotation %s", aws.ToString(s.SnapshotId), AnnotationFinalSnapshot)
		default:
			return fmt.Sprintf("the snapshot %s is %s", aws.ToString(s.SnapshotId), s.State), nil
		}
	}
	created, err := client.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
		VolumeId: &t.Identifier, Description: aws.String("Final snapshot of " + t.Identifier),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot, Tags: []types.Tag{
			{Key: aws.String("Name"), Value: &name}, {Key: aws.String(tagFinalSnapshot), Value: &name},
		}}},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the snapshot %s is being created", aws.ToString(created.SnapshotId)), nil
}
