package hook

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucketConnection returns the name and the address of a bucket.
func bucketConnection(t Target) map[string][]byte {
	out := pick(t.Properties, "bucket", "BucketName", "endpoint", "RegionalDomainName", "arn", "Arn")
	if len(out) > 0 {
		out["region"] = []byte(t.Region)
	}
	return out
}

// pagesPerCall is how many pages of 1000 objects a call of emptyBucket removes.
const pagesPerCall = 10

// emptyBucket removes the objects of a bucket with all their versions, if the managed resource allows it: AWS
// deletes only empty buckets.
func emptyBucket(ctx context.Context, config aws.Config, t Target) (waiting string, err error) {
	if t.Annotations[AnnotationEmpty] != "true" {
		return "", nil
	}
	client := s3.NewFromConfig(config, func(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil })
	removed := 0
	for range pagesPerCall {
		found, err := client.ListObjectVersions(ctx, &s3.ListObjectVersionsInput{Bucket: &t.Identifier, ExpectedBucketOwner: owner(t)})
		if hasCode(err, "NoSuchBucket") {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		var objects []types.ObjectIdentifier
		for _, v := range found.Versions {
			objects = append(objects, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
		}
		for _, m := range found.DeleteMarkers {
			objects = append(objects, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
		}
		if len(objects) == 0 {
			return "", nil
		}
		out, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &t.Identifier, ExpectedBucketOwner: owner(t), Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
		})
		if err != nil {
			return "", err
		}
		if len(out.Errors) > 0 {
			first := out.Errors[0]
			return "", fmt.Errorf("remove the objects of the bucket: %d of %d were not removed; of %q: %s: %s",
				len(out.Errors), len(objects), aws.ToString(first.Key), aws.ToString(first.Code), aws.ToString(first.Message))
		}
		if removed += len(objects); !aws.ToBool(found.IsTruncated) {
			return "", nil
		}
	}
	return fmt.Sprintf("the bucket is being emptied: %d object versions were removed now, and there are more", removed), nil
}

// owner keeps a request from a bucket of the same name in another account.
func owner(t Target) *string {
	if t.Account == "" {
		return nil
	}
	return &t.Account
}
