// Runs a model from two threads that share its weights, and prints the largest score of each run.
#include <algorithm>
#include <iostream>
#include <thread>
#include <vector>

#include "squeezenet.h"
#include "tcopt.hpp"

static float largest_score(const tcopt::Model &model, float brightness) {
  tcopt_instance_options options = TCOPT_INSTANCE_OPTIONS;
  options.threads = 1;
  tcopt::Instance instance(model, options);
  std::vector<float> pixels(3 * 224 * 224, brightness);
  instance.set_input<float>(0, pixels);
  instance.run();
  auto scores = instance.output<float>(0);
  return *std::max_element(scores.begin(), scores.end());
}

int main() try {
  tcopt::Model model(tcopt_descriptor_squeezenet());
  float found[2];
  std::thread other([&] { found[1] = largest_score(model, 0.5f); });
  found[0] = largest_score(model, 0.0f);
  other.join();
  std::cout << "largest scores " << found[0] << " and " << found[1] << "\n";
} catch (const tcopt::Error &error) {
  std::cerr << error.what() << "\n";
  return 1;
}
