// Bytes that sockets are read into and that leave again from where they arrived. All of it belongs to one thread:
// counts of references are plain numbers, and a chunk that comes back is the next one used, while the caches still have
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace softmax::bench {

struct Chunk {
  static constexpr std::size_t kBytes = 256 << 10;
  // Could be pinned for a GPU: nothing but this line decides where received tensors lie.
  const std::unique_ptr<std::uint8_t[]> bytes{new std::uint8_t[kBytes]};
  int references = 0;
  std::vector<Chunk*>* home = nullptr;
};

// A piece of a chunk, which stays while a slice of it does.
class Slice {
 public:
  Slice() = default;
  // A null chunk: of memory that outlives the slice.
  Slice(Chunk* chunk, const std::uint8_t* data, std::size_t size) : chunk_(chunk), data_(data), size_(size) {
    if (chunk_ != nullptr) ++chunk_->references;
  }
  Slice(Slice&& other) noexcept { Swap(&other); }
  Slice& operator=(Slice&& other) noexcept {
    Swap(&other);
    return *this;
  }
  ~Slice() {
    if (chunk_ != nullptr && --chunk_->references == 0) chunk_->home->push_back(chunk_);
  }

  std::span<const std::uint8_t> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }
  // The first `size` bytes, which this one then lacks.
  Slice Cut(std::size_t size) {
    Slice front(chunk_, data_, size);
    data_ += size;
    size_ -= size;
    return front;
  }
  // Whether `bytes` lie right behind this one, in the same chunk; then they belong to it from now on.
  bool Extend(const Chunk* chunk, std::span<const std::uint8_t> bytes) {
    if (chunk != chunk_ || bytes.data() != data_ + size_) return false;
    size_ += bytes.size();
    return true;
  }

 private:
  void Swap(Slice* other) {
    std::swap(chunk_, other->chunk_);
    std::swap(data_, other->data_);
    std::swap(size_, other->size_);
  }

  Chunk* chunk_ = nullptr;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

// The chunks of one thread; outlives their slices. It grows to the most that was ever held at once.
class Memory {
 public:
  // A chunk being filled. Its filled part stays as it is; what is free may be written to.
  class Filling {
   public:
    explicit Filling(Memory* memory) : memory_(memory) {}

    // Free bytes at the end of a chunk, at least `least` of them.
    std::span<std::uint8_t> Room(std::size_t least) {
      if (chunk_ != nullptr && chunk_->references == 1) filled_ = 0;  // nobody holds any of it
      if (chunk_ == nullptr || Chunk::kBytes - filled_ < least) {
        chunk_ = memory_->Take();
        hold_ = Slice(chunk_, chunk_->bytes.get(), 0);
        filled_ = 0;
      }
      return {chunk_->bytes.get() + filled_, Chunk::kBytes - filled_};
    }
    void Fill(std::size_t bytes) { filled_ += bytes; }
    Chunk* chunk() const { return chunk_; }

   private:
    Memory* const memory_;
    Chunk* chunk_ = nullptr;
    Slice hold_;
    std::size_t filled_ = 0;
  };

  // Of all connections of the thread: what a socket brought is cut up before the next one is read.
  Filling& received() { return received_; }
  // Frame heads and small pieces, put beside each other so that one piece of a system call takes many.
  Filling& small() { return small_; }

 private:
  Chunk* Take() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<Chunk>());
      all_.back()->home = &free_;
      return all_.back().get();
    }
    Chunk* const chunk = free_.back();
    free_.pop_back();
    return chunk;
  }

  std::vector<std::unique_ptr<Chunk>> all_;
  std::vector<Chunk*> free_;
  Filling received_{this};
  Filling small_{this};
};

// Bytes in order, in slices.
class SliceQueue {
 public:
  // Pieces up to this size are copied to lie beside each other, larger ones are referred to.
  static constexpr std::size_t kCopiedBytes = 1 << 10;

  void Add(Slice slice) {
    bytes_ += slice.size();
    slices_.push_back(std::move(slice));
  }
  void Copy(std::span<const std::uint8_t> bytes, Memory::Filling* small) {
    if (bytes.empty()) return;
    const std::span<std::uint8_t> room = small->Room(bytes.size()).first(bytes.size());
    std::memcpy(room.data(), bytes.data(), bytes.size());
    small->Fill(bytes.size());
    bytes_ += bytes.size();
    if (empty() || !slices_.back().Extend(small->chunk(), room)) {
      slices_.emplace_back(small->chunk(), room.data(), room.size());
    }
  }
  // The first `bytes` of another queue.
  void Move(SliceQueue* from, std::size_t bytes, Memory::Filling* small) {
    while (bytes > 0) {
      const std::size_t part = std::min(bytes, from->slices_[from->first_].size());
      bytes -= part;
      if (part <= kCopiedBytes) {
        Copy(from->slices_[from->first_].bytes().first(part), small);
        from->Drop(part);
      } else {
        Add(from->CutFirst(part));
      }
    }
  }
  void Drop(std::size_t bytes) {
    while (bytes > 0) bytes -= CutFirst(std::min(bytes, slices_[first_].size())).size();
  }
  std::span<const Slice> slices() const { return std::span(slices_).subspan(first_); }
  std::size_t bytes() const { return bytes_; }
  bool empty() const { return first_ == slices_.size(); }

 private:
  Slice CutFirst(std::size_t bytes) {
    Slice& front = slices_[first_];
    bytes_ -= bytes;
    Slice cut = bytes < front.size() ? front.Cut(bytes) : std::move(front);
    if (front.size() == 0) ++first_;
    if (empty() || (first_ >= kKeptGone && 2 * first_ >= slices_.size())) {
      slices_.erase(slices_.begin(), slices_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    return cut;
  }

  static constexpr std::size_t kKeptGone = 64;

  std::vector<Slice> slices_;
  std::size_t first_ = 0;  // those before it are gone
  std::size_t bytes_ = 0;
};

}  // namespace softmax::bench
