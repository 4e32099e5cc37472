package message

// Bucket is the number of a bucket, from 0. A bucket holds a share of the messages, with an order, a term, an outbox
// and a certification of its own. The 16-bit hash in a message's uid decides its bucket: UID.Bucket returns it, and
// BucketOf returns the bucket of a key or client id. How many buckets there are is a Bucket too, so that a range over
// it goes through all of them.
type Bucket int

// BucketOf returns the bucket of a key or client id among n buckets.
func BucketOf(name string, n Bucket) Bucket { return Bucket(Hash(name)) % n }
