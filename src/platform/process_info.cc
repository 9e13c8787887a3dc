#include "platform/process_info.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

namespace dsv4 {

Result<ProcessMemory> ReadProcessMemory(const std::filesystem::path& root) {
  const std::filesystem::path path = root / "proc/self/status";
  std::ifstream file(path);
  ProcessMemory memory;
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (!(words >> name >> kilobytes)) continue;
    for (const auto& [field, bytes] :
         {std::pair{"VmHWM:", &memory.peak_bytes}, std::pair{"RssAnon:", &memory.anonymous_bytes},
          std::pair{"RssFile:", &memory.file_bytes}}) {
      if (name != field) continue;
      *bytes = kilobytes * 1024;
      ++found;
    }
  }
  if (found != 3) {
    return Failed("{}: expected VmHWM, RssAnon and RssFile, found {} of them", path.string(),
                  found);
  }
  return memory;
}

Result<int64_t> BytesReadFromDisk(const std::filesystem::path& root) {
  const std::filesystem::path path = root / "proc/self/io";
  std::ifstream file(path);
  std::string name;
  for (int64_t bytes = 0; file >> name >> bytes;) {
    if (name == "read_bytes:") return bytes;
  }
  return Failed("{}: expected read_bytes, not found", path.string());
}

Result<double> SecondsSinceProcessStart(const std::filesystem::path& root) {
  const std::filesystem::path path = root / "proc/self/stat";
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // The program's name, in parentheses, may hold anything; the state, field 3, follows it.
  text.erase(0, text.rfind(')') + 1);
  std::istringstream words(text);
  std::string field;
  for (int i = 3; i < 22; ++i) words >> field;
  int64_t start_ticks = 0;
  timespec now = {};
  if (!(words >> start_ticks) || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return Failed("{}: expected the time of the start as field 22, not found", path.string());
  }
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         static_cast<double>(start_ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace dsv4
