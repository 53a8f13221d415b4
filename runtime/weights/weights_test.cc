// SPDX-License-Identifier: Apache-2.0
// Publisher and receiver together: over the node's broker and over gRPC, with faults on the way.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <thread>

#include "runtime/env/clock.h"
#include "runtime/env/file.h"
#include "runtime/object/object_broker.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/server.h"
#include "runtime/weights/manifest.h"
#include "runtime/weights/weight_publisher.h"
#include "runtime/weights/weight_receiver.h"
#include "runtime/weights/weight_source_client.h"

namespace troupe {
namespace {

constexpr int64_t kBucket = 64 << 10;

v1::WeightVersion Version(int64_t attempt, int64_t step) {
  v1::WeightVersion version;
  version.set_attempt(attempt);
  version.set_step(step);
  return version;
}

std::vector<std::byte> Bytes(uint64_t seed, size_t size = 5 * kBucket + 100) {
  std::vector<std::byte> bytes(size);
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

bool Same(const WeightSnapshot& snapshot, const std::vector<std::byte>& bytes) {
  return snapshot.bytes().size() == bytes.size() &&
         std::memcmp(snapshot.bytes().data(), bytes.data(), bytes.size()) == 0;
}

Monotonic Soon() { return MonotonicNow() + absl::Seconds(20); }

// A publisher's buckets without a network, with faults that are asked for.
class FaultySource : public BucketSource {
 public:
  FaultySource(const v1::WeightManifest& manifest, std::vector<std::byte> bytes)
      : manifest_(manifest), bytes_(std::move(bytes)) {}

  absl::Status Pull(const v1::WeightManifest& manifest, int64_t first_bucket, Monotonic,
                    const std::function<absl::Status(const v1::WeightBucket&)>& take) override {
    ++pulls;
    for (int64_t index = first_bucket; index < BucketCount(manifest); ++index) {
      if (breaks_every > 0 && ++sent % breaks_every == 0) return absl::UnavailableError("the link flaps");
      v1::WeightBucket bucket;
      bucket.set_index(static_cast<int32_t>(index));
      bucket.set_data(bytes_.data() + index * manifest_.bucket_bytes(),
                      static_cast<size_t>(BucketSize(manifest_, index)));
      if (index == corrupt_bucket && corruptions-- > 0) (*bucket.mutable_data())[10] ^= 1;
      if (absl::Status status = take(bucket); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  int64_t breaks_every = 0;
  int64_t corrupt_bucket = -1;
  int corruptions = 0;
  int64_t sent = 0;
  int pulls = 0;

 private:
  v1::WeightManifest manifest_;
  std::vector<std::byte> bytes_;
};

struct Fixture {
  std::string folder = MakeTemporaryDirectory("weights-test").value();
  ActorLife owner = {{JobId("job"), "actor", 0}, 1};
  std::unique_ptr<ObjectBroker> broker =
      ObjectBroker::Start({.socket_path = folder + "/objects.sock", .bytes_max = 4 << 20}).value();
  WeightPublisher publisher{WeightPublisherOptions{.owner = owner,
                                                   .node_id = "n1",
                                                   .object_socket = folder + "/objects.sock",
                                                   .versions_kept = 2,
                                                   .bucket_bytes = kBucket}};
  ObjectClient client{folder + "/objects.sock", {{JobId("job"), "rollout", 0}, 1}};
  WeightReceiver here{{.node_id = "n1", .objects = &client}};
  WeightReceiver elsewhere{{.node_id = "n2", .objects = nullptr}};
  ~Fixture() {
    broker = nullptr;
    (void)RemoveTree(folder);
  }
};

TEST_CASE("Weights: on the publisher's node a version arrives as the same memory, without a pull", "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1);
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, bytes).value();
  CHECK_FALSE(manifest.object_id().empty());
  FaultySource source(manifest, bytes);
  CHECK(f.here.serving() == nullptr);
  CHECK(f.here.Commit(Version(0, 1)).status().code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(f.here.Prepare(manifest, source, Soon()).ok());
  CHECK(f.here.serving() == nullptr);
  auto snapshot = f.here.Commit(Version(0, 1)).value();
  CHECK(Same(*snapshot, bytes));
  CHECK(source.pulls == 0);
  CHECK(f.here.serving() == snapshot);
  CHECK(f.here.Prepare(manifest, source, Soon()).ok());
  CHECK(f.here.Commit(Version(0, 1)).value() == snapshot);
}

TEST_CASE("Weights: across processes the buckets come over gRPC, and only the newest versions are kept", "[weights]") {
  Fixture f;
  RpcServerOptions options;
  options.security.token = Token::Generate();
  auto server = RpcServer::Start(options, {&f.publisher}).value();
  PullSource source(MakeChannel("127.0.0.1:" + std::to_string(server->ports()[0]), options.security));
  std::vector<v1::WeightManifest> manifests;
  for (int64_t step = 1; step <= 3; ++step) {
    manifests.push_back(f.publisher.Publish(Version(0, step), {}, Bytes(static_cast<uint64_t>(step))).value());
  }
  CHECK(f.elsewhere.Prepare(manifests[0], source, Soon()).code() == absl::StatusCode::kNotFound);
  for (size_t i : {size_t{1}, size_t{2}}) {
    REQUIRE(f.elsewhere.Prepare(manifests[i], source, Soon()).ok());
    CHECK(Same(*f.elsewhere.Commit(manifests[i].version()).value(), Bytes(i + 1)));
  }
  CHECK(f.broker->objects() == 2);
}

TEST_CASE("Weights: the publisher refuses what is not newer and repeats what is the same", "[weights]") {
  Fixture f;
  v1::WeightManifest first = f.publisher.Publish(Version(1, 5), {}, Bytes(1)).value();
  CHECK(f.publisher.Publish(Version(1, 5), {}, Bytes(1)).value().SerializeAsString() == first.SerializeAsString());
  CHECK(f.publisher.Publish(Version(1, 5), {}, Bytes(2)).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(f.publisher.Publish(Version(0, 9), {}, Bytes(2)).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(f.publisher.Publish(Version(2, 1), {}, Bytes(1)).value().hash() == first.hash());
}

TEST_CASE("Weights: a broker without room makes the version a pulled one", "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1, 5 << 20);
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, bytes).value();
  CHECK(manifest.object_id().empty());
  FaultySource source(manifest, bytes);
  REQUIRE(f.here.Prepare(manifest, source, Soon()).ok());
  CHECK(source.pulls == 1);
}

TEST_CASE("Weights: a link that flaps is resumed at the first missing bucket", "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1);
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, bytes).value();
  FaultySource source(manifest, bytes);
  source.breaks_every = 3;
  REQUIRE(f.elsewhere.Prepare(manifest, source, Soon()).ok());
  CHECK(source.pulls == 3);
  CHECK(Same(*f.elsewhere.Commit(Version(0, 1)).value(), bytes));
}

// A publisher that has no more to say.
class SilentSource final : public v1::WeightSource::Service {
 public:
  grpc::Status Pull(grpc::ServerContext* context, const v1::PullWeightsRequest*,
                    grpc::ServerWriter<v1::WeightBucket>*) override {
    while (!context->IsCancelled()) PauseFor(absl::Milliseconds(5));
    return grpc::Status::CANCELLED;
  }
};

TEST_CASE("Weights: a transfer is given up at once when it is cancelled: in a call, between tries, before it begins",
          "[weights]") {
  Fixture f;
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, Bytes(1)).value();
  SilentSource silent;
  RpcServerOptions options;
  options.security.token = Token::Generate();
  auto server = RpcServer::Start(options, {&silent}).value();
  std::string live = "127.0.0.1:" + std::to_string(server->ports()[0]);
  for (const std::string& endpoint : {live, std::string("127.0.0.1:1")}) {  // nobody listens at the other
    PullSource source(MakeChannel(endpoint, options.security));
    absl::Status status;
    std::thread receiver([&] { status = f.elsewhere.Prepare(manifest, source, Soon()); });
    PauseFor(absl::Milliseconds(700));  // a pause between tries is longer by then
    Monotonic cancelled = MonotonicNow();
    source.Cancel();
    receiver.join();
    CHECK(MonotonicNow() - cancelled < absl::Milliseconds(500));
    CHECK(status.code() == absl::StatusCode::kCancelled);
    CHECK(f.elsewhere.Prepare(manifest, source, Soon()).code() == absl::StatusCode::kCancelled);
  }
}

TEST_CASE("Weights: a corrupted bucket is asked for again, and given up when it stays wrong", "[weights]") {
  Fixture f;
  std::vector<std::byte> old_bytes = Bytes(1), bytes = Bytes(2);
  v1::WeightManifest old_manifest = f.publisher.Publish(Version(0, 1), {}, old_bytes).value();
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 2), {}, bytes).value();
  FaultySource old_source(old_manifest, old_bytes);
  REQUIRE(f.elsewhere.Prepare(old_manifest, old_source, Soon()).ok());
  REQUIRE(f.elsewhere.Commit(Version(0, 1)).ok());

  FaultySource source(manifest, bytes);
  source.corrupt_bucket = 2;
  source.corruptions = 1000;
  CHECK(f.elsewhere.Prepare(manifest, source, Soon()).code() == absl::StatusCode::kDataLoss);
  CHECK(f.elsewhere.Commit(Version(0, 2)).status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(Same(*f.elsewhere.serving(), old_bytes));
  source.corruptions = 1;
  REQUIRE(f.elsewhere.Prepare(manifest, source, Soon()).ok());
  CHECK(Same(*f.elsewhere.serving(), old_bytes));
  CHECK(Same(*f.elsewhere.Commit(Version(0, 2)).value(), bytes));
}

TEST_CASE("Weights: an abort in the middle leaves the old version, and the next transfer starts anew", "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1);
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, bytes).value();
  FaultySource source(manifest, bytes);
  source.breaks_every = 4;
  Monotonic hasty = MonotonicNow() + absl::Milliseconds(1);
  CHECK(f.elsewhere.Prepare(manifest, source, hasty).code() == absl::StatusCode::kDeadlineExceeded);
  f.elsewhere.Abort();
  CHECK(f.elsewhere.serving() == nullptr);
  CHECK(f.elsewhere.Commit(Version(0, 1)).status().code() == absl::StatusCode::kFailedPrecondition);
  source.breaks_every = 0;
  REQUIRE(f.elsewhere.Prepare(manifest, source, Soon()).ok());
  CHECK(Same(*f.elsewhere.Commit(Version(0, 1)).value(), bytes));
}

TEST_CASE("Weights: a memory file that is not what the manifest says is not served; the buckets are pulled",
          "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1);
  v1::WeightManifest manifest = f.publisher.Publish(Version(0, 1), {}, bytes).value();
  ObjectClient impostor(f.folder + "/objects.sock", f.owner);
  std::vector<std::byte> wrong = bytes;
  wrong[3 * kBucket + 7] ^= std::byte{1};
  MemoryFileWriter writer = MemoryFileWriter::Create("wrong", static_cast<int64_t>(wrong.size())).value();
  std::memcpy(writer.bytes().data(), wrong.data(), wrong.size());
  REQUIRE(impostor.Put(manifest.object_id(), std::move(writer).Seal().value()).ok());
  FaultySource source(manifest, bytes);
  REQUIRE(f.here.Prepare(manifest, source, Soon()).ok());
  CHECK(source.pulls == 1);
  CHECK(Same(*f.here.Commit(Version(0, 1)).value(), bytes));
}

TEST_CASE("Weights: content that serves already is not sent again under a new version", "[weights]") {
  Fixture f;
  std::vector<std::byte> bytes = Bytes(1);
  v1::WeightManifest first = f.publisher.Publish(Version(0, 3), {}, bytes).value();
  v1::WeightManifest again = f.publisher.Publish(Version(1, 3), {}, bytes).value();
  FaultySource source(first, bytes);
  REQUIRE(f.elsewhere.Prepare(first, source, Soon()).ok());
  auto old_snapshot = f.elsewhere.Commit(Version(0, 3)).value();
  REQUIRE(f.elsewhere.Prepare(again, source, Soon()).ok());
  auto snapshot = f.elsewhere.Commit(Version(1, 3)).value();
  CHECK(source.pulls == 1);
  CHECK(snapshot->file == old_snapshot->file);
  CHECK(f.elsewhere.Prepare(first, source, Soon()).code() == absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace troupe
